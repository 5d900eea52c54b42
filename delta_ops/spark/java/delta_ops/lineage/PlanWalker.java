package delta_ops.lineage;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;

/** Describes a plan in one call, as JSON. It judges nothing. */
public class PlanWalker {
    /**
     * Describes a plan.
     *
     * @param tag marks the inputs; nothing below an input is described
     * @param mostParts the parts of plans and expressions at most
     * @return JSON; null for a plan with more parts
     */
    public String describe(LogicalPlan plan, TreeNodeTag<?> tag, int mostParts)
            throws JsonProcessingException {
        try {
            return new ObjectMapper().writeValueAsString(new Walk(tag, mostParts).whole(plan));
        } catch (TooManyPartsException error) {
            return null;
        }
    }
}
