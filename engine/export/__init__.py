"""The exact bytes of a candidate: packed ONNX, its certificate, framework-native copies, the bundle and its
verification.
"""

from engine.export.bundle import write_bundle
from engine.export.certificate import Certificate, Check, Probe, Profile, Sizes
from engine.export.evidence import check_predictions, choice_evidence
from engine.export.native import FORMATS, load_packed
from engine.export.place import check_folder, check_zip
from engine.export.verification import Verification, verify
from engine.export.writing import write

__all__ = [
    "FORMATS",
    "Certificate",
    "Check",
    "Probe",
    "Profile",
    "Sizes",
    "Verification",
    "check_folder",
    "check_predictions",
    "check_zip",
    "choice_evidence",
    "load_packed",
    "verify",
    "write",
    "write_bundle",
]
