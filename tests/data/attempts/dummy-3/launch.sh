#!/bin/sh
/opt/venv/bin/vllm serve /models/tiny-llama --load-format dummy --enforce-eager --max-model-len 512 --seed 7 --host 127.0.0.1 --port 41816
