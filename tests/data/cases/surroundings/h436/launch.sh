#!/bin/bash
#SBATCH --nodes=4 --ntasks-per-node=1 --gres=gpu:8
srun --label torchrun --nnodes 4 --nproc_per_node 8 --node_rank $SLURM_NODEID --master_addr $MASTER --master_port 6000 pretrain_gpt.py $ARGS
