import type pg from "pg";
import type { Configured } from "../../../app/configured.ts";
import { COMMAND } from "../../../config/command.ts";
import { GRAPHQL_SCHEMA, sentenceOf } from "../../../db/findings/finding.ts";
import type { Check } from "../../../identity/diagnosis.ts";
import { readAdvice } from "../advise.ts";
import { inBrief } from "../grouped.ts";

/** Without its schema, GraphQL is not served: this is added to the checks of the service. */
export async function* checkAdvice(client: pg.Client, configured: Configured, service: Check[]): AsyncGenerator<Check> {
  const { findings } = await readAdvice(client, configured);
  const shown = findings.filter(({ level, rule }) => level !== "note" && rule !== GRAPHQL_SCHEMA);
  for (const finding of findings)
    if (finding.rule === GRAPHQL_SCHEMA)
      service.push({ level: finding.level, text: `GraphQL: ${sentenceOf(finding)}` });
  if (shown.length === 0) yield { level: "ok", text: `${COMMAND} advise has no errors or warnings` };
  yield* inBrief(shown);
}
