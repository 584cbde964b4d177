torchrun --nproc-per-node=8 pretrain.py --config big.yaml > server.log 2>&1 &
