#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=8
srun --label torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint $HEAD:29501 train.py
