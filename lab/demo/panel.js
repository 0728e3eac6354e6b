// SPDX-License-Identifier: Apache-2.0
// The demo's controls above the live page: what they are set to comes from the demo once a second, so that keys in the terminal show here as well.

const make = (tag, fields = {}, ...inside) => {
  const element = Object.assign(document.createElement(tag), fields)
  element.append(...inside)
  return element
}

const tell = async (change) => {
  const answer = await fetch('/demo/set', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(change)})
  const value = await answer.json()
  if (answer.ok) show(value)
  else said.textContent = value.error
}

const group = (name, ...inside) => make('div', {className: 'demo-group'}, make('span', {className: 'demo-name', textContent: name}), ...inside)
const loads = make('div', {className: 'demo-choice'})
const targets = make('div', {className: 'demo-choice'})
const slow = make('button', {type: 'button', id: 'demo-slow', onclick: () => tell({slow: !state.slow})})
const control = make('button', {type: 'button', id: 'demo-control', onclick: () => tell({control: !state.control})})
const said = make('p', {id: 'demo-said'})
said.setAttribute('role', 'status')
let state = null

const choose = (into, values, now, name, change) => {
  if (into.children.length === 0)
    into.append(...values.map((value) => make('button', {type: 'button', textContent: name(value), value, onclick: () => tell(change(value))})))
  for (const button of into.children) button.setAttribute('aria-pressed', String(Number(button.value) === now))
}

const time = (ms) => ms === null ? 'none answered' : ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`

const sentence = ({load, slow: isSlow, control: isOn, target_ms: target, capacity, seen}) => {
  const offered = `Users send ${seen.offered} requests a second to a service that can answer ${capacity}${isSlow ? ' since it was slowed down' : ''}.`
  const fared = `${seen.good} a second are answered within ${2 * target} ms; p90 ${time(seen.p90_ms)}; ${seen.shed} a second are told to come back later.`
  const why = isOn ? '' : load * 400 > capacity ? ' Nobody is turned away, so everybody waits.' : ' Control is off; there is enough for everybody.'
  return `${offered} ${fared}${why}`
}

const show = (value) => {
  state = value
  choose(loads, value.loads, value.load, (v) => `${v}x`, (v) => ({load: v}))
  choose(targets, value.targets_ms, value.target_ms, (v) => `${v} ms`, (v) => ({target_ms: v}))
  slow.textContent = value.slow ? 'at half speed' : 'at full speed'
  slow.setAttribute('aria-pressed', String(value.slow))
  control.textContent = value.control ? 'on' : 'off'
  control.setAttribute('aria-pressed', String(value.control))
  said.textContent = sentence(value)
}

const panel = make('section', {id: 'demo'},
  make('div', {className: 'demo-row'}, group('Load', loads), group('Service', slow), group('Control', control), group('Target p90', targets)), said)
panel.setAttribute('aria-label', 'Controls of the demo')
document.querySelector('main').prepend(panel)

const look = async () => {
  try {
    show(await (await fetch('/demo/state')).json())
  } catch {
    said.textContent = 'The demo has ended.'
  }
}
look()
setInterval(look, 1000)
