import type { Logger } from "pino";
import type { Config } from "../config/config.ts";
import type { SharedLog } from "../db/changes/shared-log.ts";
import { withClient } from "../db/cluster/client.ts";
import type { Database } from "../db/database.ts";
import type { DatabaseLimits } from "../db/limits.ts";
import type { HttpLimits } from "../gate/limits.ts";
import { type Peers, workerPeers } from "../gate/process/peers.ts";
import { Redis } from "../gate/process/redis.ts";
import { RedisLog } from "../gate/process/redis-log.ts";
import { RedisPeers } from "../gate/process/redis-peers.ts";
import { WritesInRedis } from "../gate/process/shared-writes.ts";
import type { Metrics } from "../telemetry/metrics.ts";

/**
 * The same for every process on the database, and other than for any other database: several services may use one server. The braces
 * make a cluster keep all keys on one node, as scripts require that use several of them.
 */
const PREFIX = `
  select format('content:{%s:%s}', c.system_identifier, d.oid) as prefix
  from pg_control_system() as c, pg_database as d
  where d.datname = current_database()`;

type RedisOptions = {
  readonly config: Pick<Config, "redisUrl">;
  /** A direct connection to the database. */
  readonly url: string;
  readonly metrics: Metrics;
  readonly log: Logger;
};

/** What the processes on the database share; null without REDIS_URL. Does not wait for the server: the service starts without it. */
export async function openRedis({ config, url, metrics, log }: RedisOptions): Promise<Redis | null> {
  if (config.redisUrl === "") return null;
  const { rows } = await withClient(url, (client) => client.query<{ prefix: string }>(PREFIX));
  const redis = await Redis.open({ url: config.redisUrl, prefix: rows[0]!.prefix, log });
  redis.registerMetrics(metrics);
  return redis;
}

/** Every process knows what a caller has written, at any of them. */
export function shareWrites(
  redis: Redis | null,
  { replicas }: Pick<Database, "replicas">,
  { config, log }: { readonly config: Pick<DatabaseLimits, "replicaSticky">; readonly log: Logger },
): void {
  if (redis) replicas?.share(new WritesInRedis({ redis, milliseconds: config.replicaSticky, log }));
}

/** The changes that one process reads for all; null if each process reads for itself. */
export const sharedLogOf = (
  redis: Redis | null,
  { changesMaxBytes: maxBytes }: Pick<DatabaseLimits, "changesMaxBytes">,
) => redis && ((publication: string): SharedLog => new RedisLog({ redis, publication, maxBytes }));

/** What a message has beside the bytes of a broadcast in base64. */
const MORE_CHARACTERS = 16_384;

/** The other processes of the service; null without any. */
export function peersOf(
  redis: Redis | null,
  config: Pick<HttpLimits, "wsMaxMessageBytes">,
  metrics: Metrics,
): Peers | null {
  if (redis === null) return workerPeers();
  return new RedisPeers({ redis, metrics, maxLength: 2 * config.wsMaxMessageBytes + MORE_CHARACTERS });
}
