import { type Health, healthInterface, reportOf } from "../gate/operations/health.ts";
import type { AlwaysOnInterface } from "../gate/pipeline/pipeline.ts";
import { REST } from "../rest-gateway/express-interface.ts";
import type { App } from "./app.ts";

export type ServiceHealthOptions = Pick<Health, "state" | "access"> & {
  /** Called only when the service is ready. */
  app(): App;
};

/** The probes of this service. */
export function serviceHealth({ state, access, app }: ServiceHealthOptions): AlwaysOnInterface {
  return healthInterface(
    {
      ...{ state, access },
      ping: () => app().database.ping(),
      fault: () => (app().graphql?.isBeginning ? "the GraphQL schema is being built" : null),
      report: () => {
        const { graphql, findings, changes, announcement, instances, redis } = app();
        return reportOf({
          graphql,
          advice: findings.advice,
          changes: changes.health,
          schemaChanges: announcement.fault,
          instances: instances.fault,
          redis: redis?.fault ?? null,
        });
      },
    },
    REST.reject,
  );
}
