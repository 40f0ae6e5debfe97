import {
  AdminUserAnswer,
  EventListAnswer,
  NewUserBody,
  UserChangeBody,
  UserListAnswer,
} from "../../rest-gateway/auth/admin-schemas.ts";
import { created, noContent, ok } from "../../rest-gateway/auth/answers.ts";
import { type Routes, route } from "../../rest-gateway/auth/route.ts";
import { listEvents } from "./events.ts";
import { changeUser, createUser, deleteFactors, deleteSessions, deleteUser, listUsers, readUser } from "./users.ts";

const WHO = "For administrators and the service key.";
const CHANGES = `${WHO} An administrator needs a recent sign-in; an API key is not enough.`;
const integer = { type: "integer", minimum: 1 } as const;
const time = { type: "string", format: "date-time" } as const;

/** The routes of administrators. */
export const ADMIN_ROUTES: Routes = {
  "GET /auth/admin/users": route({
    operationId: "listAccounts",
    summary: "List accounts",
    description: `${WHO} Newest first.`,
    query: {
      q: "A part of the e-mail, the name or the username; or the id.",
      page: ["From 1.", integer],
      limit: ["Accounts on a page, at most 100; 20 by default.", integer],
    },
    credential: "operator",
    answer: ok("A page of accounts.", UserListAnswer),
    problems: [400],
    handle: listUsers,
  }),
  "POST /auth/admin/users": route({
    operationId: "createAccount",
    summary: "Create a user with an account",
    description: `${CHANGES} No e-mail is sent. Not affected by \`SIGNUP\`.`,
    credential: "operator",
    body: NewUserBody,
    answer: created("The account.", AdminUserAnswer),
    problems: [409],
    handle: createUser,
  }),
  "GET /auth/admin/users/{user}": route({
    operationId: "readAccount",
    summary: "Read an account",
    description: WHO,
    credential: "operator",
    answer: ok("The account.", AdminUserAnswer),
    handle: readUser,
  }),
  "PATCH /auth/admin/users/{user}": route({
    operationId: "changeAccount",
    summary: "Change an account",
    description: `${CHANGES} Fields that are not sent stay. Administrators cannot disable or demote themselves.`,
    credential: "operator",
    body: UserChangeBody,
    answer: ok("The changed account.", AdminUserAnswer),
    problems: [409],
    handle: changeUser,
  }),
  "DELETE /auth/admin/users/{user}": route({
    operationId: "deleteAccount",
    summary: "Delete a user",
    description: `${CHANGES} Deletes the user, the account, and the rows of all tables that refer to the user; with \`handOverTo\` these rows refer to another user instead.`,
    query: { handOverTo: "The id of the user who gets the data." },
    credential: "operator",
    answer: noContent("Deleted."),
    problems: [400, 409],
    handle: deleteUser,
  }),
  "DELETE /auth/admin/users/{user}/factors": route({
    operationId: "resetFactors",
    summary: "Remove all second factors of a user",
    description: `${CHANGES} Ends all tokens and sessions of the user if a factor was enabled.`,
    credential: "operator",
    answer: noContent("Removed."),
    handle: deleteFactors,
  }),
  "DELETE /auth/admin/users/{user}/sessions": route({
    operationId: "signOutEverywhere",
    summary: "Sign a user out everywhere",
    description: `${CHANGES} API keys remain valid.`,
    credential: "operator",
    answer: noContent("Signed out."),
    handle: deleteSessions,
  }),
  "GET /auth/admin/events": route({
    operationId: "listSecurityEvents",
    summary: "List security events",
    description: `${WHO} Newest first. With \`Accept: text/csv\` or \`application/x-ndjson\` the events are an export.`,
    query: {
      event: "What happened, such as `login_failed`.",
      user: "The id of the user whose account it is.",
      operator: "Who acted instead of the user: `user 3`, `role service_role`.",
      from: ["Events from this time on.", time],
      to: ["Events before this time.", time],
      before: ["Older events than the one with this id: `next` of the previous response.", integer],
      limit: ["At most 10000; 100 by default.", integer],
    },
    credential: "operator",
    answer: { ...ok("Events.", EventListAnswer), text: "text/csv" },
    problems: [400],
    handle: listEvents,
  }),
};
