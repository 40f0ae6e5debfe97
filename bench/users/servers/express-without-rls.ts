import pg from "pg";
import { readSettings } from "../../peer-settings.ts";
import { Refusal, usersApp } from "./users-app.ts";

// Without row-level security a statement takes one round trip, and each handler must check the permission.
const { databaseUrl, poolSize, secret, port } = readSettings();
const pool = new pg.Pool({ connectionString: databaseUrl, max: poolSize });

usersApp(
  secret,
  (_caller, statement) => pool.query(statement),
  ({ role, userId }, id) => {
    if (role !== "admin" && userId !== id) throw new Refusal(403, "users change themselves alone");
  },
).listen(port, "127.0.0.1");
