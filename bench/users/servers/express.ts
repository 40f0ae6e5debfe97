import pg from "pg";
import { readSettings } from "../../peer-settings.ts";
import { type Run, usersApp } from "./users-app.ts";

// Row-level security used by hand: a transaction that starts by setting the caller.
const { databaseUrl, poolSize, secret, port } = readSettings();
const pool = new pg.Pool({ connectionString: databaseUrl, max: poolSize });

const SETTINGS = {
  name: "settings",
  text: "select set_config('role', $1, true), set_config('request.jwt.claims', $2, true)",
};

const run: Run = async ({ role, claims }, statement) => {
  const client = await pool.connect();
  try {
    await client.query("begin");
    await client.query({ ...SETTINGS, values: [role, claims] });
    const result = await client.query(statement);
    await client.query("commit");
    return result;
  } catch (error) {
    await client.query("rollback");
    throw error;
  } finally {
    client.release();
  }
};

// The policies decide who may write: a row that they hide is not found.
usersApp(secret, run, () => {}).listen(port, "127.0.0.1");
