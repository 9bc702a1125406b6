# An ordinary user (1000), whose only writable place is /state: docker run --read-only --tmpfs /tmp works.
# TORCH_INDEX: an index of CPU-only wheels of torch, for an image a third the size. Without it torch comes with CUDA's
# libraries, for a computer with or without a graphics card.
FROM python:3.11-slim
ARG TORCH_INDEX=
WORKDIR /app
COPY locks locks
RUN if [ -n "$TORCH_INDEX" ]; then set -- cpu --extra-index-url "$TORCH_INDEX"; else set -- cuda; fi \
    && lock="locks/$1.txt" && shift && pip install --no-cache-dir --require-hashes -r "$lock" "$@"
COPY . .
# Public networks that see and read, inside the image.
RUN python -m dpcl_core fetch --environment lite0 smollm2
# The framework's scripts, compressed, and its icons.
RUN python -m pages.parts.served
RUN useradd --uid 1000 --no-create-home --home-dir /state dpcl && install -d -o dpcl -g dpcl /state
# What people bring and what runs leave behind live outside the image. HOME: for any other user, too.
# FORWARDED_ALLOW_IPS: proxies that are believed from where a visitor comes; none unless somebody names them.
ENV DPCL_HOME=/state DPCL_DATA=/data HOME=/state PYTHONDONTWRITEBYTECODE=1 FORWARDED_ALLOW_IPS=
USER dpcl
VOLUME ["/state", "/data"]
EXPOSE 8501
HEALTHCHECK CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8501/_stcore/health')"]
CMD ["streamlit", "run", "app.py", "--server.address=0.0.0.0", "--server.headless=true"]
