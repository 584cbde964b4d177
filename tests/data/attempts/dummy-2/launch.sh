#!/bin/sh
/opt/venv/bin/vllm serve /models/tiny-llama --load-format dummy --enforce-eager --max-model-len 512 --max-num-seqs 16 --host 127.0.0.1 --port 41813
