# What pip asks of a source distribution before it hands it over is its metadata; its own build tools would be fetched
# for that, and a compiler run. This stands in for them: name and version are known, nothing is built.
import os

NAME = "llama_cpp_python"
VERSION = "0.3.36"


def prepare_metadata_for_build_wheel(directory, config_settings=None):
    information = f"{NAME}-{VERSION}.dist-info"
    os.mkdir(os.path.join(directory, information))
    with open(os.path.join(directory, information, "METADATA"), "w") as file:
        file.write(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n")
    return information
