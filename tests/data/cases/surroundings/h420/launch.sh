trtllm-serve /engines/hf/Qwen3-30B-A3B --tp_size 4 --max_batch_size 128 --host 0.0.0.0 --port 8000 > /logs/trt.log 2>&1
