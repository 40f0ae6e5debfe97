import { CHALLENGE, NAME } from "../bodies.ts";
import { named } from "../schemas.ts";
import { CredentialBody } from "./credentials.ts";

export const NewPasskeyBody = named("NewPasskey", {
  credential: CredentialBody,
  name: NAME("What the user calls it. Without it, the browser and the system.").nullable().optional(),
});

export const PasskeyNameBody = named("PasskeyName", { name: NAME("What the user calls it.") });

/** With the challenge of a login, the browser offers the passkeys of its account; without it, all that it has. */
export const PasskeyChallengeBody = named("PasskeyChallengeRequest", { challenge: CHALLENGE.nullable().optional() });
