import { createServer } from "node:http";
import express from "express";
import { postgraphile } from "postgraphile";
import { makePgService } from "postgraphile/adaptors/pg";
import { grafserv } from "postgraphile/grafserv/express/v4";
import { pluginsOf } from "../../../demo/plugins/index.ts";
import { plugins } from "../../../parts/graphql-extras/plugins.ts";
import { contractPreset } from "../../../plugins/index.ts";
import { withoutNodeIds } from "../../../plugins/shape/NodeIdsPlugin.ts";
import { bearerVerifier, readSettings } from "../../peer-settings.ts";

// PostGraphile as its documentation sets it up: its own adaptor, its own server on Express. The schema is the contract's.
const { databaseUrl, poolSize, secret, port } = readSettings();
const verify = bearerVerifier(secret);

const instance = postgraphile({
  extends: [contractPreset, withoutNodeIds],
  // Its records need the adaptor of the service.
  disablePlugins: ["RecordColumnsPlugin"],
  plugins: [...plugins, ...pluginsOf({ deleteAnonymous: "error", timeScalar: "Time" })],
  pgServices: [
    makePgService({
      connectionString: databaseUrl,
      schemas: ["public"],
      poolConfig: { max: poolSize },
      pubsub: false,
      pgSettings: ({ http }) => {
        const { role, claims } = verify(http?.getHeader("authorization"));
        return { role, "request.jwt.claims": claims };
      },
    }),
  ],
  grafserv: { graphqlPath: "/graphql", graphiql: false, websockets: false },
});

const app = express();
const server = createServer(app);
await instance.createServ(grafserv).addTo(app, server);
await instance.getSchema();
server.listen(port, "127.0.0.1");
