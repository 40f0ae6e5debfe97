import type { EmbedPlan, Plan, RowsPlan } from "../plan/plan.ts";

/**
 * The header Warning, for parameters that call a relation by its name where it has an alias; null when none does.
 * Source: PostgREST docs, "url-use-legacy-target-names".
 */
export function warningOf(plan: Plan): string | null {
  const rows = plan.kind === "read" || plan.kind === "call" ? plan.rows : plan.representation;
  const older = rows ? olderNames(rows) : [];
  if (older.length === 0) return null;
  const updates = older.map(({ olderName, name }) => `\`${asText(olderName!)}\` to \`${asText(name)}\``);
  return (
    '299 content-service "Embedded resource was referenced by relation name even though it has an alias. ' +
    "This is deprecated and will stop working in a future release. " +
    `Update ${updates.join(", ")} in query string filters, orders or limits."`
  );
}

const olderNames = ({ embeds }: RowsPlan): EmbedPlan[] =>
  embeds.flatMap((embed) => [...(embed.olderName === null ? [] : [embed]), ...olderNames(embed.rows)]);

/** Of names the quoted text of a header can hold ASCII, without quotes. */
const asText = (name: string) => name.replace(/[^ !#-[\]-~]/gu, encodeURIComponent);
