import { SECRET } from "./credentials.ts";
import type { ServerSettings } from "./peer-settings.ts";
import { fileOf, POOL_SIZE, type Program, type ServerDatabase } from "./servers.ts";

export type PeerOptions = {
  /** The login of its connections, unless it is that of the pools for callers. */
  readonly login?: keyof ServerDatabase;
};

/** A server of the bench's own to compare with; `file` is its module, relative to `bench`. */
export const peer = (name: string, about: string, file: string, { login = "dataUrl" }: PeerOptions = {}): Program => ({
  name,
  about,
  base: "",
  command: (database, port) => {
    const settings: ServerSettings = { databaseUrl: database[login], poolSize: POOL_SIZE, secret: SECRET, port };
    return {
      file: process.execPath,
      args: [fileOf(file), JSON.stringify(settings)],
      environment: { GRAPHILE_ENV: "production", NODE_ENV: "production" },
    };
  },
});
