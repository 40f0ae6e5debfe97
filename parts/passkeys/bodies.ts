import { CHALLENGE } from "../../rest-gateway/auth/bodies.ts";
import { named } from "../../rest-gateway/auth/schemas.ts";

/** With the challenge of a login, the browser offers the passkeys of its account; without it, all that it has. */
export const PasskeyChallengeBody = named("PasskeyChallengeRequest", { challenge: CHALLENGE.nullable().optional() });
