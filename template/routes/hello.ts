import { defineRoute } from "content-service";

/** `GET /hello` → `{ "role": "anon" }` */
export const hello = defineRoute({
  path: "/hello",
  methods: {
    GET: (_request, _response, { caller }) => ({ role: caller.role }),
  },
});
