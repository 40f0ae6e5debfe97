import type { z } from "zod";
import { NAME } from "../bodies.ts";
import { named } from "../schemas.ts";
import { CredentialBody } from "./credentials.ts";

export const NewPasskeyBody = named("NewPasskey", {
  credential: CredentialBody,
  name: NAME("What the user calls it. Without it, the browser and the system.").nullable().optional(),
});

export const PasskeyNameBody = named("PasskeyName", { name: NAME("What the user calls it.") });

export type NewPasskeyInput = z.infer<typeof NewPasskeyBody>;
export type PasskeyNameInput = z.infer<typeof PasskeyNameBody>;
