// Takes the secret of a link from behind its "#", which is sent to nobody, and posts it.
"use strict";
{
  const form = document.getElementById("sign-in");
  const take = () => {
    const secret = location.hash.slice(1);
    if (!/^qt[kl]_[\w-]+$/.test(secret)) return false;
    history.replaceState(null, "", location.pathname + location.search);
    form.elements.secret.value = secret;
    form.requestSubmit();
    return true;
  };
  // Where this page is open already, a link changes no more than that.
  addEventListener("hashchange", take);
  if (!take()) form.elements.secret.focus();
}
