// Refreshes the numbers every two seconds, unless they are being read.
const SECONDS = 2;
const numbers = document.getElementById("live");
const button = document.getElementById("pause");
let isPaused = false;

const isRead = () => numbers.contains(document.activeElement) || !document.getSelection().isCollapsed;

async function refresh() {
  if (isPaused || isRead() || document.hidden) return;
  const response = await fetch(location.href);
  // The sign-in has ended.
  if (response.redirected) return location.reload();
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  // Also if the reader has begun, or paused, since the request.
  if (isPaused || isRead()) return;
  numbers.replaceChildren(...page.getElementById("live").childNodes);
}

button.hidden = false;
button.addEventListener("click", () => {
  isPaused = !isPaused;
  button.textContent = isPaused ? "Continue" : "Pause";
});
// A request that fails is made again.
setInterval(() => refresh().catch(() => {}), SECONDS * 1000);
