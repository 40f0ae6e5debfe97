import type { ListedPart } from "../service/parts.ts";
import { commands as advisorCommands } from "./advisor/commands.ts";
import { commands as development } from "./development/commands.ts";
import { commands as mailCommands } from "./mail/commands.ts";
import { commands as openapiCommands } from "./openapi/commands.ts";

/**
 * Every part, in the order in which they are opened, and of their links in the header of pages. A part is deleted with its folder
 * and its entry.
 */
export const PARTS: readonly ListedPart[] = [
  {
    name: "development",
    load: async () => (await import("./development/part.ts")).development,
    commands: development,
  },
  { name: "graphql-extras", load: async () => (await import("./graphql-extras/part.ts")).graphqlExtras },
  {
    name: "supabase-auth",
    modules: ["auth"],
    load: async () => (await import("./supabase-auth/part.ts")).supabaseAuth,
    settings: async () => (await import("./supabase-auth/settings.ts")).SUPABASE_AUTH,
  },
  {
    name: "supabase-paths",
    load: async () => (await import("./supabase-paths/part.ts")).supabasePaths,
    settings: async () => (await import("./supabase-paths/settings.ts")).SUPABASE_PATHS,
  },
  { name: "advisor", load: async () => (await import("./advisor/part.ts")).advisor, commands: advisorCommands },
  { name: "tasks", modules: ["tasks"], load: async () => (await import("./tasks/part.ts")).tasks },
  {
    name: "mail",
    modules: ["auth", "tasks"],
    load: async () => (await import("./mail/part.ts")).mail,
    commands: mailCommands,
    settings: async () => (await import("./mail/settings.ts")).MAIL,
  },
  {
    name: "account-admin",
    modules: ["auth"],
    load: async () => (await import("./account-admin/part.ts")).accountAdmin,
  },
  { name: "federated", modules: ["auth"], load: async () => (await import("./federated/part.ts")).federated },
  { name: "saml", modules: ["auth"], load: async () => (await import("./saml/part.ts")).saml },
  {
    name: "passkeys",
    modules: ["auth"],
    load: async () => (await import("./passkeys/part.ts")).passkeys,
    settings: async () => (await import("./passkeys/settings.ts")).PASSKEYS,
  },
  { name: "openapi", load: async () => (await import("./openapi/part.ts")).openapi, commands: openapiCommands },
  { name: "site", isForDevelopment: true, load: async () => (await import("./site/part.ts")).site },
  { name: "reference", isForDevelopment: true, load: async () => (await import("./reference/part.ts")).reference },
  { name: "explorer", isForDevelopment: true, load: async () => (await import("./explorer/part.ts")).explorer },
  { name: "console", isForDevelopment: true, load: async () => (await import("./console/part.ts")).console },
  {
    name: "account-pages",
    modules: ["auth"],
    load: async () => (await import("./account-pages/part.ts")).accountPages,
  },
];
