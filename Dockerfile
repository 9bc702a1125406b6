# CPU by default. With a GPU: docker build --build-arg DEVICE=cuda . and run with --gpus all.
# Where an index of CPU-only torch wheels is at hand, name it in TORCH_INDEX for an image a third the size.
FROM python:3.11-slim
ARG DEVICE=cpu
ARG TORCH_INDEX=
WORKDIR /app
COPY requirements.txt .
RUN if [ "$DEVICE" = cpu ] && [ -n "$TORCH_INDEX" ]; then export PIP_EXTRA_INDEX_URL="$TORCH_INDEX"; fi \
    && pip install --no-cache-dir -r requirements.txt
COPY . .
# Public networks that see and read, inside the image.
RUN python -m dpcl_core fetch --environment lite0 smollm2
# What people bring and what runs leave behind live outside the image.
ENV DPCL_HOME=/state DPCL_DATA=/data
VOLUME ["/state", "/data"]
EXPOSE 8501
HEALTHCHECK CMD python -c "from urllib.request import urlopen; urlopen('http://127.0.0.1:8501/_stcore/health')"
CMD ["streamlit", "run", "app.py", "--server.address=0.0.0.0", "--server.headless=true"]
