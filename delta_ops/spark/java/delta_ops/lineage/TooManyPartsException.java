package delta_ops.lineage;

/** The plan has too many parts to describe. */
class TooManyPartsException extends RuntimeException {
    private static final long serialVersionUID = 1L;
}
