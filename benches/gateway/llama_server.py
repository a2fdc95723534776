"""llama.cpp's own server with its Vulkan backend, built from the sources that llama-cpp-python's sdist carries.

Needs cmake, ninja, a C++ compiler and Debian's packages libvulkan-dev, glslc and spirv-headers: installed, or under the
prefix that VULKAN_PREFIX names (`dpkg -x` of them and of libshaderc1 and libvulkan1 into one directory; then its usr). Takes
some 20 minutes of one core. What it fetches and builds goes to target/llama-server.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "llama-server"
SDIST = "llama-cpp-python==0.3.36"
MAKE_GGUF = ROOT / "benches/llama/make_gguf.py"
OPTIONS = [
    "-DCMAKE_BUILD_TYPE=Release", "-DGGML_VULKAN=ON", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_OPENSSL=OFF",
]  # fmt: skip


def python():
    """A Python with what make_gguf.py needs."""
    path = WORK / "venv/bin/python"
    if not path.exists():
        subprocess.run([sys.executable, "-m", "venv", WORK / "venv"], check=True)
    if subprocess.run([path, "-c", "import gguf"], capture_output=True).returncode != 0:
        subprocess.run([path, "-m", "pip", "install", "--quiet", "gguf"], check=True)
    return path


def model():
    """The model of benches/llama in Q8_0."""
    path = WORK / "125M-q8_0.gguf"
    if not path.exists():
        WORK.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        subprocess.run([python(), MAKE_GGUF, "q8_0", part], check=True)
        part.rename(path)
    return path


def sources():
    """llama.cpp's sources, made to compile with the Vulkan headers of Debian 12."""
    place = WORK / "sources"
    if not place.exists():
        WORK.mkdir(parents=True, exist_ok=True)
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "llama-cpp-python"]
        subprocess.run([*fetch, "--dest", WORK, SDIST], check=True)
        part = WORK / "sources.part"
        shutil.rmtree(part, ignore_errors=True)
        archive = WORK / (SDIST.replace("-", "_").replace("==", "-") + ".tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(part, filter="data")
        without_layer_settings(next(part.glob("*/vendor/llama.cpp/ggml/src/ggml-vulkan/ggml-vulkan.cpp")))
        part.rename(place)
    return next(place.glob("*/vendor/llama.cpp"))


def without_layer_settings(path):
    """Takes out a setting of the validation layer, which is off: headers of 2022 do not have its type."""
    text = path.read_text()
    block = r"    std::vector<vk::LayerSettingEXT> settings = \{.*?layer_setting_info\(settings\);\n"
    text = re.sub(block, "", text, count=1, flags=re.DOTALL)
    path.write_text(text.replace("extensions, &layer_setting_info)", "extensions)"))


def environment():
    """llama.cpp leaves software adapters out unless they are named."""
    found = dict(os.environ, GGML_VK_VISIBLE_DEVICES="0")
    if prefix := os.environ.get("VULKAN_PREFIX"):
        found["LD_LIBRARY_PATH"] = f"{prefix}/lib/x86_64-linux-gnu"
    return found


def build():
    """The server; none, with the reason said, where it cannot be built."""
    server = WORK / "build/bin/llama-server"
    if server.exists():
        return server
    configure = ["cmake", "-G", "Ninja", "-S", sources(), "-B", WORK / "build", *OPTIONS]
    if prefix := os.environ.get("VULKAN_PREFIX"):
        configure += [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DVulkan_INCLUDE_DIR={prefix}/include"]
        configure += [f"-DVulkan_LIBRARY={prefix}/lib/x86_64-linux-gnu/libvulkan.so"]
        configure += [f"-DVulkan_GLSLC_EXECUTABLE={prefix}/bin/glslc"]
    steps = [configure, ["nice", "-n", "19", "ninja", "-C", WORK / "build", "llama-server"]]
    for step in steps:
        with open(WORK / "build.log", "a") as said:
            done = subprocess.run(list(map(str, step)), stdout=said, stderr=said, env=environment())
        if done.returncode != 0:
            print(f"llama.cpp's server cannot be built, see {WORK}/build.log: that comparison is left out", flush=True)
            return None
    return server


def version(server):
    said = subprocess.run([server, "--version"], capture_output=True, text=True, env=environment())
    return f"{SDIST}: {(said.stderr + said.stdout).strip()}"


def command(server, model, port, streams, context):
    """As many slots as streams, of so many positions each, everything on the adapter."""
    sizes = ["--parallel", streams, "--ctx-size", streams * context, "--n-gpu-layers", 99]
    return [server, "--model", model, "--host", "127.0.0.1", "--port", port, "--alias", "bench", *sizes]
