package delta_ops.writes;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.DataFrameWriter;

/** Writes rows by {@link CommitProtocol}, and returns the files that were written. */
public class ReportedWrites {
    /** Sets the commit protocol of all other writes of the application. */
    public void leaveOthersTo(String className) {
        if (!className.equals(CommitProtocol.class.getName())) {
            CommitProtocol.others = className;
        }
    }

    /**
     * Writes rows as Parquet.
     *
     * @param place a directory that holds nothing
     * @return JSON, for each file a list of its path below the place, its size in bytes and its
     *     modification time in milliseconds; null if Spark used another commit protocol
     */
    public String write(DataFrameWriter<?> writer, String place) throws IOException {
        List<List<List<Object>>> reports = new ArrayList<>();
        CommitProtocol.expect(place, reports);
        try {
            writer.parquet(place);
        } finally {
            CommitProtocol.forget(place);
        }
        return reports.isEmpty() ? null : new ObjectMapper().writeValueAsString(reports.get(0));
    }
}
