"""Creates a session of delta_ops, on the Spark and the Java of this process.

python -m tests.versions.session_program
"""

import delta_ops.spark as ds

if __name__ == "__main__":
    ds.get_session().stop()
