package delta_ops.versions;

import java.util.List;
import scala.collection.JavaConverters;

/** Converts collections, as the class of this name in Scala 2.13 does. */
public class CollectionConverters {
    private CollectionConverters() {}

    public static <T> List<T> asJava(scala.collection.Seq<T> elements) {
        return JavaConverters.seqAsJavaList(elements);
    }

    public static <T> Iterable<T> asJava(scala.collection.Iterable<T> elements) {
        return JavaConverters.asJavaIterable(elements);
    }

    public static <K, V> java.util.Map<K, V> asJava(scala.collection.Map<K, V> entries) {
        return JavaConverters.mapAsJavaMap(entries);
    }

    public static <T> scala.collection.mutable.Buffer<T> asScala(List<T> elements) {
        return JavaConverters.asScalaBuffer(elements);
    }

    public static <K, V> scala.collection.mutable.Map<K, V> asScala(java.util.Map<K, V> entries) {
        return JavaConverters.mapAsScalaMap(entries);
    }
}
