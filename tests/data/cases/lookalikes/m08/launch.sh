export HF_HUB_DISABLE_PROGRESS_BARS=1
python3 -m vllm.entrypoints.openai.api_server --model org/Qwen2.5-72B-Instruct -tp 4 --port 8000 2>&1 | tee /logs/server.log
