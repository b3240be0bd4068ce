# The app as one image. `docker build -t anchorpoint .`, or with `--build-arg EXTRAS=` for the light core only.
FROM python:3.11-slim

ARG EXTRAS=torch,keras,litert
# Sessions and resumable work live in one folder, so that one volume keeps both.
ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    TF_CPP_MIN_LOG_LEVEL=3 \
    ANCHORPOINT_WORKSPACE=/data/sessions \
    ANCHORPOINT_STORE=/data/store

# The pin keeps pip from taking a build of PyTorch that brings gigabytes of GPU packages.
COPY requirements.txt /build/requirements.txt
COPY pyproject.toml README.md LICENSE app.py /build/
COPY .streamlit /build/.streamlit
COPY engine /build/engine
COPY pages /build/pages
COPY sample_models /build/sample_models
RUN if [ -n "$EXTRAS" ]; then grep '^torch==' /build/requirements.txt > /build/pins.txt; else : > /build/pins.txt; fi \
    && pip install -c /build/pins.txt "/build${EXTRAS:+[$EXTRAS]}" \
    && rm -rf /build \
    && useradd --create-home --uid 1000 visitor \
    && mkdir -p /data \
    && chown visitor /data

USER visitor
WORKDIR /data
VOLUME /data
EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=4)"]
CMD ["anchorpoint", "app", "--address", "0.0.0.0", "--port", "8501", "--headless"]
