helm upgrade --install trtllm-70b ./chart --set image=nvcr.io/nvidia/tensorrt-llm/release:1.2.0 --set resources.gpu=8 --set args="trtllm-serve /models/llama-70b --tp_size 8 --port 8000"
kubectl logs -f trtllm-70b-0 > trtllm.log   # Error from server (BadRequest): container "server" in pod "trtllm-70b-0" is waiting to start
