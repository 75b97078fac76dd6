#pragma once

#include <string_view>

namespace ddpscope {

/// The style sheet of the page. Light and dark follow the reader's system; print drops colour
/// fills.
inline constexpr std::string_view kHtmlStyle = R"css(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--text:#1b2129;--soft:#5a6675;--line:#dfe3e8;
--error:#c0262d;--error-fill:#fdeeee;--warning:#9a5b00;--warning-fill:#fff5e2;--note:#1f5fa8;
--note-fill:#eaf2fc;--good:#1c7c45;--good-fill:#e8f6ee;--code:#f1f3f6;
--l0:#dde6ef;--l1:#a9c4df;--l2:#6592c2;--l3:#2c5688}
@media (prefers-color-scheme:dark){:root{--page:#12161c;--card:#1a2029;--text:#e6eaf0;--soft:#9aa7b6;
--line:#2d3643;--error:#ff8080;--error-fill:#3a1c20;--warning:#f5bf5c;--warning-fill:#35290f;
--note:#7fb6f5;--note-fill:#172a41;--good:#6fd49a;--good-fill:#14301f;--code:#232b36;
--l0:#26323f;--l1:#35536f;--l2:#4f86b8;--l3:#a5d0f7}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.55 system-ui,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif;overflow-wrap:anywhere}
main,header,footer{max-width:1060px;margin:0 auto;padding:0 24px}
header{padding-top:32px}
h1{font-size:15px;font-weight:600;letter-spacing:.02em;color:var(--soft);margin:0 0 12px}
h2{font-size:19px;margin:40px 0 12px}
h3{font-size:16px;margin:0;font-weight:600}
code,pre,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:.9em}
code{background:var(--code);border-radius:4px;padding:1px 5px}
.verdict{border-radius:12px;padding:22px 26px;border:1px solid var(--line);border-left:6px solid;
background:var(--card)}
.verdict.error{border-left-color:var(--error)}.verdict.warning{border-left-color:var(--warning)}
.verdict.note{border-left-color:var(--note)}.verdict.good{border-left-color:var(--good)}
.verdict p{margin:6px 0 0}.verdict .head{font-size:24px;line-height:1.3;font-weight:650;margin:0}
.verdict .lead{font-size:16px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:12px;margin:16px 0 0;
padding:0;list-style:none}
.tiles li{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 16px}
.tiles b{display:block;white-space:nowrap;font-size:22px;line-height:1.25;font-weight:650}
.tiles span{color:var(--soft);font-size:13px}
.finding{background:var(--card);border:1px solid var(--line);border-left:4px solid;border-radius:10px;
margin:0 0 16px;padding:18px 22px}
.finding.error{border-left-color:var(--error)}.finding.warning{border-left-color:var(--warning)}
.finding.note{border-left-color:var(--note)}.finding.suppressed{opacity:.75}
.finding .top{display:flex;flex-wrap:wrap;gap:8px 12px;align-items:baseline}
.finding .what{font-size:16px;margin:8px 0 0}
.finding h4{font-size:13px;color:var(--soft);margin:16px 0 4px;font-weight:600}
.finding p{margin:4px 0}
.badge{border-radius:999px;padding:1px 10px;font-size:12.5px;font-weight:600;white-space:nowrap}
.badge.error,.badge.failed{color:var(--error);background:var(--error-fill)}
.badge.warning,.badge.blocked{color:var(--warning);background:var(--warning-fill)}
.badge.note,.badge.plain{color:var(--note);background:var(--note-fill)}
.badge.passed,.badge.safe{color:var(--good);background:var(--good-fill)}
.finding .id{margin-left:auto}
pre.source{background:var(--code);border-radius:6px;padding:8px 12px;margin:4px 0 8px;overflow-x:auto;
white-space:pre-wrap}
.tiles li.short{border-color:var(--warning)}.tiles li.short b{color:var(--warning)}
svg{display:block;width:100%;height:auto;margin:8px 0}svg text{fill:var(--soft);font-size:11px}
.l0{fill:var(--l0);background:var(--l0)}.l1{fill:var(--l1);background:var(--l1)}
.l2{fill:var(--l2);background:var(--l2)}.l3{fill:var(--l3);background:var(--l3)}
.m0{fill:var(--note);background:var(--note)}.m1{fill:var(--warning);background:var(--warning)}
.m2{fill:var(--error);background:var(--error)}
.key{display:inline-block;width:12px;height:12px;border-radius:2px;margin:0 3px 0 10px;vertical-align:-1px}
.legend .key:first-child{margin-left:3px}
.curves{display:grid;grid-template-columns:repeat(auto-fit,minmax(400px,1fr));gap:6px 28px}
figure{margin:6px 0}figcaption{font-size:14px}
.curve{fill:none;stroke:var(--l3);stroke-width:1.5;vector-effect:non-scaling-stroke}
.band{fill:var(--l1);opacity:.6}
nav{display:flex;flex-wrap:wrap;gap:4px 18px;margin:14px 0 0;font-size:14px}
.next{margin-top:12px}
.more td:nth-child(2),.more td:nth-child(4){white-space:nowrap}
.soft{color:var(--soft)}.small{font-size:13px}
ul.fixes{margin:4px 0 0;padding-left:0;list-style:none}ul.fixes li{margin:4px 0}
ul.tree{margin:6px 0 0;padding:0;list-style:none}ul.tree li{margin:2px 0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:left;padding:6px 12px 6px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600;font-size:13px}
thead th,[aria-labelledby=ranks] td:not(:last-child){overflow-wrap:normal}
tbody tr:last-child td,tbody tr:last-child th{border-bottom:0}
table.facts{width:auto}table.facts th{font-weight:500;white-space:nowrap;padding-right:24px}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:10px 22px}
details{margin:10px 0 0}summary{cursor:pointer;color:var(--note);font-size:14px}
summary:focus-visible,a:focus-visible{outline:2px solid var(--note);outline-offset:2px}
.card>details{margin:4px 0}.card>details>summary{font-size:15px;color:var(--text);padding:4px 0}
a{color:var(--note)}
footer{color:var(--soft);font-size:13px;padding-top:28px;padding-bottom:40px}
@media print{*{print-color-adjust:exact;-webkit-print-color-adjust:exact}nav{display:none}body{background:#fff;font-size:12px}.finding,.card,.verdict,.tiles li{break-inside:avoid;
box-shadow:none}main,header,footer{max-width:none;padding:0}}
)css";

}  // namespace ddpscope
