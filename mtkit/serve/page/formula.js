// Formulas: the TeX that models write, as MathML. One with a command that is not known here stays as it is written.

const signs_of = (text) => new Map([...text.matchAll(/([a-zA-Z]+)([^\sa-zA-Z]+)/gu)].map(([, name, sign]) => [name, sign]));
const LETTERS = signs_of("alphaα betaβ gammaγ deltaδ epsilonϵ varepsilonε zetaζ etaη thetaθ iotaι kappaκ lambdaλ muμ nuν xiξ piπ rhoρ sigmaσ tauτ phiϕ varphiφ chiχ psiψ omegaω GammaΓ DeltaΔ ThetaΘ LambdaΛ PiΠ SigmaΣ PhiΦ PsiΨ OmegaΩ infty∞ partial∂ nabla∇ ellℓ hbarℏ emptyset∅ varnothing∅");
const SIGNS = signs_of("times× cdot· div÷ pm± mp∓ le≤ leq≤ ge≥ geq≥ lt< gt> ne≠ neq≠ ll≪ gg≫ approx≈ equiv≡ sim∼ propto∝ forall∀ exists∃ in∈ notin∉ subset⊂ subseteq⊆ supset⊃ supseteq⊇ cup∪ cap∩ setminus∖ to→ rightarrow→ leftarrow← Rightarrow⇒ Leftarrow⇐ leftrightarrow↔ Leftrightarrow⇔ iff⟺ implies⟹ ldots… dots… cdots⋯ vdots⋮ ddots⋱ land∧ wedge∧ lor∨ vee∨ neg¬ oplus⊕ otimes⊗ circ∘ ast∗ perp⊥ parallel∥ mid∣ angle∠ therefore∴ langle⟨ rangle⟩ lfloor⌊ rfloor⌋ lceil⌈ rceil⌉ vert| Vert‖ int∫");
const BIG = signs_of("sum∑ prod∏ bigcup⋃ bigcap⋂");
const FUNCTIONS = words("sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln exp dim ker deg arg");
const LIMITS = words("lim max min sup inf argmax argmin det gcd Pr");
const ACCENTS = signs_of("hat^ widehat^ bar¯ overline¯ vec→ tilde~ dot˙ ddot¨ overbrace⏞ underbrace⏟ underline_");
const SPACES = {",": .17, ":": .22, ";": .28, " ": .28, "!": 0, quad: 1, qquad: 2};
const FENCES = {pmatrix: "()", bmatrix: "[]", vmatrix: "||", cases: "{.", matrix: "..", array: "..", aligned: "..", align: ".."};
const DOUBLE = "CℂHℍNℕPℙQℚRℝZℤ";
const TEX = /\\(?:begin|end|text|textbf|textit|mathrm|operatorname)\*? ?\{[^{}]*\}|\\[a-zA-Z]+|\\[^]|\d+(?:[.,]\d+)*|'+|\S/gu;
const MOST_NESTED = 40, MOST_TOKENS = 2000;

function math_node(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/1998/Math/MathML", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Return TeX as MathML; throws where something is not known. */
function math_of(tex, is_block) {
  const tokens = tex.match(TEX), make = math_node;
  let at = 0, depth = 0;
  if (tokens.length > MOST_TOKENS) throw new Error("too long");
  const sign = (text, stretchy = false) => make("mo", {stretchy}, text);
  const row = (...nodes) => (nodes.length === 1 ? nodes[0] : make("mrow", {}, ...nodes));
  const fence = (text) => (text === "." ? "" : sign(text, true));
  const refuse = () => { throw new Error("not known"); };

  /** Read up to one of some tokens, and behind it. */
  function sequence(...ends) {
    const nodes = [];
    while (!ends.includes(tokens[at])) nodes.push(scripted());
    at += 1;
    return nodes;
  }

  function scripted() {
    const base = atom(), marks = {};
    while (/^(?:[\^_]|'+)$/.test(tokens[at])) {
      const mark = tokens[at++], node = mark[0] === "'" ? sign("′".repeat(mark.length)) : atom();
      const place = mark === "_" ? "_" : "^", before = marks[place];
      if (before && before.localName !== "mo") refuse();  // two are none of TeX, unless one is a prime
      marks[place] = before ? row(before, node) : node;
    }
    const {_: below, "^": above} = marks;
    const names = base.is_wide && is_block ? ["munder", "mover", "munderover"] : ["msub", "msup", "msubsup"];
    return below || above ? make(names[below && above ? 2 : above ? 1 : 0], {}, base, below ?? "", above ?? "") : base;
  }

  function atom() {
    const token = tokens[at++];
    if (!token || /^[}&^_$#%]$/.test(token) || (depth += 1) > MOST_NESTED) refuse();
    const node = token === "{" ? row(...sequence("}")) : token[0] === "\\" ? command(token.slice(1))
      : /^\d/.test(token) ? make("mn", {}, token) : /^\p{L}/u.test(token) ? make("mi", {}, token)
      : sign({"-": "−", "*": "∗", "~": "\u00a0"}[token] ?? token);
    depth -= 1;
    return node;
  }

  function delimiter() {
    const token = tokens[at++] ?? refuse(), name = token.slice(1);
    return fence(token[0] !== "\\" ? token : name === "|" ? "‖" : SIGNS.get(name) ?? name);
  }

  function command(name) {
    const [, kind, text] = /^([a-z]+)\*? ?\{([^]*)\}$/.exec(name) ?? [];
    if (kind === "begin") return environment(text);
    if (kind === "mathrm" || kind === "operatorname") return wide(make("mi", {mathvariant: "normal"}, text), kind !== "mathrm");
    if (kind && kind !== "end") return make("mtext", {class: kind}, text.replace(/^ | $/g, "\u00a0"));
    if (name in SPACES) return make("mspace", {width: `${SPACES[name]}em`});
    if (/^[{}%$#&_|]$/.test(name)) return sign(name === "|" ? "‖" : name);
    if (LETTERS.has(name)) return make("mi", {}, LETTERS.get(name));
    if (SIGNS.has(name)) return sign(SIGNS.get(name));
    if (BIG.has(name)) return wide(make("mo", {}, BIG.get(name)));
    if (FUNCTIONS.has(name) || LIMITS.has(name)) return wide(make("mi", {}, name), LIMITS.has(name));
    if (ACCENTS.has(name)) return wide(make(name[0] === "u" ? "munder" : "mover", {accent: true}, atom(), sign(ACCENTS.get(name), name.length > 5)), name.endsWith("brace"));
    switch (name) {
      case "frac": case "dfrac": case "tfrac": return make("mfrac", {}, atom(), atom());
      case "binom": return row(fence("("), make("mfrac", {linethickness: 0}, atom(), atom()), fence(")"));
      case "sqrt": {
        if (tokens[at] !== "[") return make("msqrt", {}, atom());
        at += 1;
        const index = row(...sequence("]"));
        return make("mroot", {}, atom(), index);
      }
      case "left": return row(delimiter(), ...sequence("\\right"), delimiter());
      case "mathbf": case "boldsymbol": case "boxed": return make("mrow", {class: name}, atom());
      case "mathbb": case "mathcal": {
        const node = atom(), first = name === "mathbb" ? 0x1d538 : 0x1d4d0;
        node.textContent = node.textContent.replace(/[A-Z]/g, (key) => (name === "mathbb" && DOUBLE.split(key)[1]?.[0]) || String.fromCodePoint(first + key.charCodeAt() - 65));
        return node;
      }
      default: return refuse();
    }
  }

  const wide = (node, is_wide = true) => Object.assign(node, {is_wide});

  function environment(name) {
    const end = `\\end{${name}}`, kind = name.replace("*", ""), rows = [[]];
    if (!Object.hasOwn(FENCES, kind)) refuse();
    if (kind === "array" && tokens[at] === "{") at = tokens.indexOf("}", at) + 1;
    for (;;) {
      rows.at(-1).push(make("mtd", {}, ...sequence("&", "\\\\", end)));
      if (tokens[at - 1] === end) break;
      if (tokens[at - 1] === "\\\\") rows.push([]);
    }
    const table = make("mtable", {class: kind}, ...rows.map((cells) => make("mtr", {}, ...cells)));
    return row(fence(FENCES[kind][0]), table, fence(FENCES[kind][1]));
  }

  return make("math", {display: is_block ? "block" : "inline"}, ...sequence(undefined));
}

function formula(text, is_block = false) {
  const tex = text.trim();
  try {
    return math_of(tex, is_block);
  } catch {
    return element("code", {class: is_block ? "math block" : "math", dir: "ltr"}, tex);
  }
}
