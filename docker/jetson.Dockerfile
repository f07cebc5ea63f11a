# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
#
# memspec_ros with ROS 2 Humble on a Jetson with JetPack 6.2. Build it on the board, from the
# repository's root:
#
#   docker build -f docker/jetson.Dockerfile --build-arg JETSON_WHEELS=INDEX -t memspec_ros .
#
# INDEX is the Python index of the Jetson AI Lab for JetPack 6 and CUDA 12.6 (jp6/cu126), which has
# PyTorch for aarch64 with CUDA; what PyPI has for aarch64 runs on the CPU only. docs/jetson.md
# says how to run the image.
ARG BASE_IMAGE=nvcr.io/nvidia/l4t-jetpack:r36.4.0
FROM ${BASE_IMAGE}

ARG JETSON_WHEELS
ARG TORCH=torch==2.9.1
ARG DEBIAN_FRONTEND=noninteractive
RUN test -n "$JETSON_WHEELS" || { echo 'give --build-arg JETSON_WHEELS=INDEX' >&2; exit 1; }

# ROS 2 Humble, as its installation page for Ubuntu 22.04 has it.
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      ca-certificates curl gnupg software-properties-common \
 && add-apt-repository universe \
 && curl -sSL https://raw.githubusercontent.com/ros/rosdistro/master/ros.key \
      -o /usr/share/keyrings/ros.gpg \
 && echo "deb [signed-by=/usr/share/keyrings/ros.gpg]" \
      "http://packages.ros.org/ros2/ubuntu jammy main" \
      > /etc/apt/sources.list.d/ros2.list \
 && apt-get update \
 && apt-get install -y --no-install-recommends build-essential cmake python3-pip \
      python3-colcon-common-extensions python3-rosdep ros-humble-ros-base \
 && rm -rf /var/lib/apt/lists/*

# numpy 1: Humble's binary packages were built against it (jetson-containers#961).
RUN python3 -m pip install --no-cache-dir 'numpy>=1.26,<2' \
 && python3 -m pip install --no-cache-dir --index-url "$JETSON_WHEELS" "$TORCH" \
 && python3 -m pip install --no-cache-dir 'numpy>=1.26,<2' safetensors tokenizers gguf \
      huggingface_hub jinja2 pyyaml tqdm

COPY . /ws/src/memspec_ros
WORKDIR /ws
RUN . /opt/ros/humble/setup.sh \
 && rosdep init && rosdep update --rosdistro humble \
 && apt-get update && rosdep install --from-paths src --ignore-src -y --rosdistro humble \
 && colcon build --packages-select memspec_ros --cmake-args -DCMAKE_BUILD_TYPE=Release \
 && rm -rf /var/lib/apt/lists/* build log

# Models lie outside of the image.
ENV HF_HOME=/models/huggingface
VOLUME /models
SHELL ["/bin/bash", "-c"]
ENTRYPOINT ["/bin/bash", "-c", "source /ws/install/setup.bash && exec \"$@\"", "--"]
CMD ["ros2", "launch", "memspec_ros", "orin_nano.launch.py"]
