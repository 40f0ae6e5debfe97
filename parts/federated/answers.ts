import { z } from "zod";
import { text, time, timeOrNull, uuid } from "../../rest-gateway/auth/answers.ts";
import { named } from "../../rest-gateway/auth/schemas.ts";

export const IdentityAnswer = named("Identity", {
  id: uuid(),
  provider: text("The name of the provider."),
  email: z.string().nullable().describe("The e-mail that the provider has sent last."),
  linkedAt: time("When the identity was linked to the account."),
  lastUsedAt: timeOrNull("When the user last signed in with it; null if never."),
});
export const IdentityListAnswer = named("IdentityList", { data: z.array(IdentityAnswer) });

export const LogoutAnswer = named("FederatedLogout", {
  message: text("A message for people."),
  location: z.string().nullable().describe("The URL that ends the sign-in at the provider; null if it has none."),
});
