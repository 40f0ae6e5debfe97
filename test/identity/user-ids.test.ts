import { expect, onTestFinished, test } from "vitest";
import { DEMO } from "../support/demo.ts";
import { refusalsOf } from "../support/refusals.ts";
import { startTestService } from "../support/service.ts";

const { settings: _chosen, ...config } = DEMO.config;
/** The demo as it is when the type of ids is not in its settings: the database has it. */
const WITHOUT_TYPE = { ...DEMO, config };
const REFUSED = "the access token is not valid: sign in again";
const WHY = "the access token is not of a user of this service, whose ids are bigint";

test("a token whose subject cannot be an id of the database is refused by every interface, without AUTH_USER_ID", async () => {
  const service = await startTestService({}, undefined, undefined, undefined, { definition: WITHOUT_TYPE });
  onTestFinished(service.stop);
  const { tokens } = service.service;
  for (const id of ["nobody-7", "0b0e6a10-6a5a-4b53-8d3c-3a6b1f0c9d11", "99999999999999999999", "-1"]) {
    const user = { id, name: "", role: "authenticated", permissions: [] };
    const { accessToken } = tokens.issuePair(user, { refreshToken: "", signedInAt: Date.now() });
    expect([id, await refusalsOf(service, accessToken)]).toEqual([
      id,
      {
        resource: [401, REFUSED],
        "sign-in": [401, REFUSED],
        table: [401, WHY],
        "stream of a table": [401, WHY],
        GraphQL: [200, `login required: ${WHY}`],
        "GraphQL stream": [401, WHY],
        "GraphQL socket": [4403, WHY],
        channel: ["error", `InvalidJWTToken: ${REFUSED}`],
      },
    ]);
  }
});
