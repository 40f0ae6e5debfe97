import pg from "pg";
import { readSettings } from "../../peer-settings.ts";
import { Refusal, usersApp } from "./users-app.ts";

// Without row-level security one statement is one round trip, and every handler must think of who may.
const { databaseUrl, poolSize, secret, port } = readSettings();
const pool = new pg.Pool({ connectionString: databaseUrl, max: poolSize });

usersApp(
  secret,
  (_caller, statement) => pool.query(statement),
  ({ role, userId }, id) => {
    if (role !== "admin" && userId !== id) throw new Refusal(403, "users change themselves alone");
  },
).listen(port, "127.0.0.1");
