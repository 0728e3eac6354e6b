// SPDX-License-Identifier: Apache-2.0
// Makes pages quicker. Nothing here is necessary: every page works without it.
"use strict";

const all = (what, within = document) => [...within.querySelectorAll(what)];

// Times as this browser's user has them.
function localTimes(within) {
  const now = new Date();
  for (const time of all("time[datetime]", within)) {
    const at = new Date(time.dateTime);
    if (isNaN(at)) continue;
    const today = at.toDateString() === now.toDateString();
    const options = "long" in time.dataset ? { dateStyle: "medium", timeStyle: "short" } : today ? { timeStyle: "short" }
      : at.getFullYear() === now.getFullYear() ? { day: "numeric", month: "short" } : { dateStyle: "short" };
    time.textContent = at.toLocaleString(undefined, options);
    time.title = at.toLocaleString();
  }
}

// A frame as high as what is in it. The frame may run no scripts, so its parent looks.
function fitFrames() {
  for (const frame of all("iframe[data-frame]")) {
    const fit = () => {
      const inside = frame.contentDocument && frame.contentDocument.documentElement;
      if (!inside) return;
      frame.style.height = "0"; // otherwise it never becomes lower
      frame.style.height = `${Math.min(Math.max(inside.scrollHeight, 80), 20000)}px`;
    };
    frame.addEventListener("load", () => { fit(); for (const image of frame.contentDocument.images) image.addEventListener("load", fit); });
    addEventListener("resize", fit);
    fit();
  }
}

function selectAll() {
  const box = document.querySelector("[data-all]");
  if (!box) return;
  box.hidden = false;
  box.addEventListener("change", () => { for (const each of all(".row > input")) each.checked = box.checked; });
}

// ---- forms that are kept while the service is busy ----

function say(form, text) {
  let notice = form.querySelector(":scope > .notice");
  if (!notice) {
    notice = document.createElement("p");
    notice.className = "notice";
    notice.setAttribute("role", "status");
    form.prepend(notice);
  }
  notice.textContent = text;
}

const sleep = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

// Sends a form; while the service is busy, waits as it says and sends again. What was typed stays where it is.
async function sendKept(form, submitter) {
  const data = new FormData(form, submitter);
  const plain = form.enctype !== "multipart/form-data";
  for (let tries = 0; tries < 20; tries++) {
    let answer;
    try {
      answer = await fetch(form.action, { method: "POST", body: plain ? new URLSearchParams(data) : data });
    } catch {
      say(form, "There is no connection. Nothing is lost; trying again.");
      await sleep(3);
      continue;
    }
    // Where it led on it was taken, however busy the next page is: sent again, a mail would go out twice.
    if (answer.redirected || answer.status !== 503) return show(answer, form);
    const seconds = Math.min(Number(answer.headers.get("Retry-After")) || 1, 60);
    for (let left = seconds; left > 0; left--) {
      say(form, `Busy right now. Nothing is lost; trying again in ${left} s.`);
      await sleep(1);
    }
  }
  say(form, "It is still busy. Try again later; what you entered is kept here.");
}

// What came back: another page, or the same one with what is wrong. A page that only says what is wrong does not replace what was typed.
async function show(answer, form) {
  if (answer.redirected) {
    location.assign(answer.url);
    return;
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!answer.ok && !page.querySelector("form[data-keep]")) {
    say(form, page.querySelector("main p")?.textContent ?? "That did not work.");
    return;
  }
  document.title = page.title;
  document.body.replaceWith(document.adoptNode(page.body));
  begin();
}

let sending = false;
addEventListener("submit", (event) => {
  const form = event.target;
  if (!("keep" in form.dataset) || form.method !== "post") return;
  event.preventDefault();
  if (sending) return;
  const bytes = all("input[type=file]", form).flatMap((input) => [...input.files]).reduce((sum, file) => sum + file.size, 0);
  if (bytes > Number(form.dataset.most)) {
    say(form, `The attachments are too large: together at most ${Math.floor(form.dataset.most / 1048576)} MB.`);
    return;
  }
  sending = true;
  sendKept(form, event.submitter).finally(() => { sending = false; });
});

// The page that says that the service is busy.
function countDown() {
  const count = document.querySelector("[data-seconds]"), form = document.querySelector("form[data-again]");
  if (!count) return;
  let left = Number(count.dataset.seconds);
  const timer = setInterval(() => {
    left--;
    if (left > 0) { count.textContent = left; return; }
    clearInterval(timer);
    if (form) form.requestSubmit();
  }, 1000);
}

// ---- keys ----

const rows = () => all("form.list .row, .search .row");

function turn(step) {
  const list = rows();
  if (list.length === 0) return document.querySelector(`[data-key="${step > 0 ? "j" : "k"}"]`)?.click();
  const at = list.findIndex((row) => row.classList.contains("here"));
  const to = list[Math.min(Math.max(at + step, 0), list.length - 1)];
  list[at]?.classList.remove("here");
  to.classList.add("here");
  to.querySelector("a").focus({ preventScroll: true });
  to.scrollIntoView({ block: "nearest" });
}

function act(key) {
  const here = document.querySelector(".row.here");
  if (key === "j" || key === "k") turn(key === "j" ? 1 : -1);
  else if (key === "c") location.assign("/compose");
  else if (key === "/") document.querySelector(".find input")?.focus();
  else if (key === "x" && here) here.querySelector("input")?.click();
  else if (key === "#" && document.querySelector("form.list")) {
    if (here && !document.querySelector(".row > input:checked")) here.querySelector("input").checked = true;
    document.querySelector("form.list button[value=delete], form.list button[value=purge]")?.click();
  } else if (key === "Enter" && here && document.activeElement === document.body) here.querySelector("a").click();
  else if ("raf#u".includes(key)) document.querySelector(`[data-key="${key}"]`)?.click();
  else return false;
  return true;
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
  if (act(event.key)) event.preventDefault();
});

function begin() {
  localTimes();
  fitFrames();
  selectAll();
  countDown();
}
begin();
