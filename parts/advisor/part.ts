import type { Part } from "../../service/part.ts";
import { advise, rulesOf } from "./advisor.ts";
import { Diagnosis } from "./diagnosis.ts";
import { LiveAdvisor, readAcceptances } from "./live.ts";
import { rolesOfCallers } from "./setup.ts";

export const advisor: Part = {
  name: "advisor",
  about:
    "mistakes in the database, with the SQL that fixes them: in the log, at /health, and by advise, doctor and why",
  open({ config, database, opened, catalog, settings, findings, parts, log }) {
    const diagnosis = new Diagnosis(database.catalog, () => catalog.current, log);
    database.onFailure = (failure) => diagnosis.examine(failure);
    if (config.advisor === "off") return {};
    const { logins, logsAdvice, isReported } = opened;
    const live = new LiveAdvisor({
      ...{ pool: database.catalog, logins, settings: () => settings.current, findings, logsAdvice, isReported, log },
      rules: rulesOf(parts),
    });
    findings.onChange(() => live.soon());
    catalog.onChange((changed) => live.follow(changed));
    live.follow(catalog.current);
    return { settled: () => live.settled(), close: () => live.close() };
  },
  async inspect(client, { config, parts }, roles = rolesOfCallers(config)) {
    const acceptances = await readAcceptances(config.advisor);
    const options = { schemas: config.dbSchemas, logins: [], roles, acceptances, rules: rulesOf(parts) };
    return (await advise(client, options)).findings;
  },
};
