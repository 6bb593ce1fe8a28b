// Before anything is drawn: the colours that somebody has chosen, and that there are scripts.
"use strict";
{
  const root = document.documentElement;
  root.classList.add("js");
  try {
    const chosen = localStorage.getItem("queuectl-theme");
    if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  } catch {
    // A browser that keeps nothing shows what the system says.
  }
}
