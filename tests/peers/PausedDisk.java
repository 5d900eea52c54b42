import java.io.File;
import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/**
 * Hadoop's own file system of a disk, held up once: where the system would take the processor away
 * from a process that has looked whether a version is there, and is about to rename. Writes the
 * file "looked" into the folder of "peer.pause", and goes on when "go" is there too.
 */
public class PausedDisk extends ChecksumFs {
    public PausedDisk(URI uri, Configuration conf) throws Exception {
        super(new Raw(uri, conf));
    }

    static class Raw extends DelegateToFileSystem {
        Raw(URI uri, Configuration conf) throws Exception {
            super(uri, new Disk(), conf, "file", false);
        }

        public int getUriDefaultPort() {
            return -1;
        }
    }

    static class Disk extends RawLocalFileSystem {
        public boolean rename(Path from, Path to) throws IOException {
            if (to.getName().matches("[0-9]{20}[.]json")) {
                File folder = new File(getConf().get("peer.pause"));
                if (new File(folder, "looked").createNewFile()) {
                    while (!new File(folder, "go").exists()) {
                        pause();
                    }
                }
            }
            return super.rename(from, to);
        }

        private void pause() throws IOException {
            try {
                Thread.sleep(1);
            } catch (InterruptedException error) {
                throw new IOException(error);
            }
        }
    }
}
