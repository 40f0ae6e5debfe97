export default () => new Response("reminded");
