import { createHmac } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Caller } from "../../db/caller.ts";
import { networkOf } from "../../http/rate-limit.ts";
import type { AddressReader } from "../../http/request.ts";
import { answerOf } from "../conventions/endpoint.ts";
import { type LifecycleOptions, prefixOf } from "../conventions/version.ts";
import { ownStorageFull, storageFull, tooManyTasks } from "./problem.ts";
import { acceptedBody, taskUrl } from "./representation.ts";
import type { TaskQueue } from "./task-handler.ts";
import type { CallerTaskRepository, TaskLimits } from "./task-repository.ts";

export type QueueOptions = {
  readonly repository: Pick<CallerTaskRepository, "add">;
  readonly settings: TaskLimits & {
    readonly dbAnonRole: string;
    readonly taskAnonymous: boolean;
    readonly apiV1Status: LifecycleOptions["status"];
  };
  readonly addressOf: AddressReader;
  /** Hashes IP addresses. */
  readonly addressKey: Buffer;
};

export function taskQueue({ repository, settings, addressOf, addressKey }: QueueOptions): TaskQueue {
  const { dbAnonRole, taskAnonymous, taskMaxPending, apiV1Status } = settings;
  const isAnonymous = ({ role }: Caller) => role === dbAnonRole;
  const hashedAddress = (request: IncomingMessage) =>
    createHmac("sha256", addressKey)
      .update(networkOf(addressOf(request)))
      .digest("base64url");
  return {
    isOpenTo: (caller) => taskAnonymous || !isAnonymous(caller),
    accept: async (task, prefix) => {
      const address = isAnonymous(task.caller) ? hashedAddress(task.sender) : null;
      const added = await repository.add(task, address);
      if (added === "too many") throw tooManyTasks(taskMaxPending);
      if (added === "own storage full") throw ownStorageFull(settings.taskMaxStoredBytesPerOwner);
      if (added === "storage full") throw storageFull();
      // Without a version in the path, the links must still lead to a supported version.
      const linkPrefix = prefix || prefixOf(apiV1Status);
      return answerOf(202, acceptedBody(added, linkPrefix), [
        ["Location", taskUrl(added, linkPrefix)],
        ["Preference-Applied", "respond-async"],
      ]);
    },
  };
}
