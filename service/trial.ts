import type { Logger } from "pino";
import type { Caller } from "../db/caller.ts";
import { Trial } from "../db/trial.ts";
import { GRAPHQL } from "../graphql/envelope.ts";
import { type InProcessRequest, sendInProcess } from "../http/in-process.ts";
import { Pipeline } from "../http/pipeline.ts";
import type { Tried } from "../pages/console/try.ts";
import { ExpressInterface, type ExpressInterfaceOptions, REST } from "../rest-gateway/express-interface.ts";
import { TABLES } from "../rest-gateway/table/send.ts";
import { Phases } from "../telemetry/phases.ts";
import type { createApp } from "./app.ts";

export type TrialOptions = Pick<ExpressInterfaceOptions, "onInternalError"> & {
  readonly app: Awaited<ReturnType<typeof createApp>>;
  readonly log: Logger;
};

/** The response that the console shows, and the time that it may take. */
const LIMITS = { size: 1_048_576, timeout: 30_000 };

/** Sends requests of the console through a pipeline that has the interfaces of the service, and the chosen caller. */
export function trialSender({ app, log, onInternalError }: TrialOptions) {
  const { rest, graphql, callers } = app;
  const nothing = new ExpressInterface({ routers: [], onInternalError });
  const interfaces = [rest.tables, ...(graphql ? [graphql.http] : []), rest.resources, nothing];
  return async (request: InProcessRequest, caller: Caller, keepsChanges: boolean): Promise<Tried> => {
    const trial = new Trial(keepsChanges);
    const phases = new Phases();
    const pipeline = new Pipeline({
      log,
      corsOrigins: [],
      rateLimit: null,
      queue: null,
      metrics: null,
      tracer: phases,
      alwaysOn: [],
      envelopes: [TABLES, GRAPHQL, REST],
    });
    pipeline.open(interfaces, {
      callers: { identify: (sent) => callers.identifyAs(sent, { caller, trial }) },
    });
    const start = performance.now();
    const response = await sendInProcess(pipeline.listener, request, LIMITS);
    const milliseconds = performance.now() - start;
    return { response, milliseconds, phases: phases.all, transactions: trial.transactions };
  };
}
