import { z } from "zod";
import { AccountBody, field, isStorable } from "./bodies.ts";
import { loginEmailFault } from "./login-names.ts";
import { named } from "./schemas.ts";

// The bodies of the routes for administrators. Requests are parsed with them, and the OpenAPI document is generated from them.

const ROLES = ["authenticated", "admin"] as const;

const role = z.enum(ROLES, { error: `must be ${ROLES.join(" or ")}` });
const flag = () => z.boolean({ error: "must be true or false" });
const email = z
  .string({ error: ({ input }) => (input === undefined ? "is required" : "must be a text") })
  .check(({ value, issues }) => {
    const message = isStorable(value) ? loginEmailFault(value) : "must be a valid address";
    if (message !== null) issues.push({ code: "custom", input: value, message });
  })
  .meta({ format: "email", description: "The e-mail that the user signs in with." });

export const NewUserBody = named(
  "AdminNewUser",
  {
    name: field(
      (value) => value.trim() !== "" && value.length <= 200 && isStorable(value),
      "must have 1 to 200 characters",
      {
        minLength: 1,
        maxLength: 200,
      },
    ),
    email,
    username: AccountBody.shape.username,
    password: AccountBody.shape.password
      .optional()
      .describe("Without it, the user sets one by e-mail, or signs in with a provider."),
    role: role.default("authenticated"),
    emailConfirmed: flag().default(false).describe("Whether the e-mail is known to be that of the user."),
  },
  { others: "refused" },
);

export const UserChangeBody = named(
  "AdminUserChange",
  {
    email: email.optional(),
    role: role.optional().describe("Another role ends all tokens and sessions of the user."),
    disabled: flag().optional().describe("A disabled user cannot sign in, and is signed out everywhere."),
    emailConfirmed: flag()
      .refine((value) => value, { error: "must be true" })
      .optional(),
  },
  { others: "refused" },
);

const text = (description: string) => z.string().describe(description);
const time = (description: string) => z.string().meta({ description, format: "date-time" });

export const AdminUserAnswer = named("AdminUser", {
  id: z.union([z.number(), z.string()]).describe("The id of the user, a number or a text."),
  name: text("The name of the user."),
  username: z.string().nullable().describe("Null if the user signs in with the e-mail alone."),
  email: z.string().nullable().describe("The e-mail that the user signs in with; null for an anonymous user."),
  emailConfirmed: z.boolean(),
  role: text("The role of the user."),
  permissions: z.array(z.string()),
  disabled: z.boolean(),
  mfaEnabled: z.boolean().describe("Whether a second factor is enabled."),
  hasPassword: z.boolean(),
  createdAt: time("When the account was created."),
  lastSignInAt: z
    .string()
    .nullable()
    .meta({ description: "When the latest session that has not ended began; null without one.", format: "date-time" }),
});

export const UserListAnswer = named("AdminUserList", {
  data: z.array(AdminUserAnswer),
  pagination: z.object({ page: z.int(), limit: z.int(), total: z.int(), totalPages: z.int() }),
});

export const EventAnswer = named("SecurityEvent", {
  id: z.int().describe("Increasing."),
  at: time("When it happened."),
  event: text("What happened, such as `login`."),
  userId: z.union([z.number(), z.string()]).nullable().describe("The user whose account it is."),
  address: z.string().nullable().describe("The IP address of the client."),
  detail: z.looseObject({}).describe("Further details; no secrets."),
  operator: z
    .string()
    .nullable()
    .describe("Who acted instead of the user: `user 3`, `role service_role`, `login content`."),
});

export const EventListAnswer = named("SecurityEventList", {
  data: z.array(EventAnswer),
  next: z.int().nullable().describe("Send it as `before` for older events; null if there are none."),
});
