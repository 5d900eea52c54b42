package delta_ops.stores;

import java.lang.reflect.Field;
import java.util.Iterator;
import java.util.Map;
import org.apache.hadoop.fs.FileSystem;

/**
 * The clients that Hadoop keeps for object stores, one for each bucket and user.
 *
 * <p>Hadoop has no public way to remove the clients of one bucket.
 */
public class StoreClients {
    /** Removes the clients of a bucket. Its next use makes a client with the settings of then. */
    public void forget(String scheme, String authority) throws ReflectiveOperationException {
        Object cache = valueOf(FileSystem.class, "CACHE", null);
        synchronized (cache) {
            Map<?, ?> clients = (Map<?, ?>) valueOf(cache.getClass(), "map", cache);
            Iterator<?> keys = clients.keySet().iterator();
            while (keys.hasNext()) {
                Object key = keys.next();
                if (scheme.equals(valueOf(key.getClass(), "scheme", key))
                        && authority.equals(valueOf(key.getClass(), "authority", key))) {
                    keys.remove();
                }
            }
        }
    }

    private static Object valueOf(Class<?> type, String name, Object owner)
            throws ReflectiveOperationException {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }
}
