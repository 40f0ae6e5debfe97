// The link that `npm start` prints has a key in its fragment, which browsers send to no server.
const key = decodeURIComponent(location.hash.slice(1));
if (key !== "") {
  const field = document.getElementById("credential");
  field.value = key;
  history.replaceState(null, "", location.pathname + location.search);
  // One click, because a page of another site could lead here.
  field.form.querySelector("button").focus();
}
