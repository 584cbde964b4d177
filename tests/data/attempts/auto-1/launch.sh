#!/bin/sh
/opt/venv/bin/vllm serve /models/tiny-llama --load-format auto --enforce-eager --max-model-len 256 --dtype bfloat16 --host 127.0.0.1 --port 41812
