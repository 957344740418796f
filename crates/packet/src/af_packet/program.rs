//! The kernel's filter for each [`Filter`], as a classic BPF program.
//!
//! ```text
//!   outgoing? ──yes──▶ none      ethertype: behind the addresses, or the tag's own
//!       │ no                     UDP:  a tag? ──▶ none
//!       ▼                              IPv4: header of 20 bytes or more, protocol 17, no fragment ─┐
//!   the filter's question              IPv6: next header 17 ───────────────────────────────────────┴▶ lengths agree, port
//! ```
//! The kernel has already removed an outer VLAN tag, so the ethertype behind it follows the addresses. A load beyond the frame's
//! end ends the program, which then takes nothing.
//!
//! Sources: `Documentation/networking/filter.rst`, `include/uapi/linux/filter.h`; RFC 791, RFC 8200, RFC 768.

use hairpin_sys::packet_socket::Instruction;

use crate::filter::Filter;

// A is the accumulator, X the index register; "stored" is in one of sixteen scratch words.
/// A = a word, a half word, a byte of the frame.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
/// A = a half word at X + operand.
const LOAD_HALF_INDEXED: u16 = 0x48;
const LOAD_FRAME_LENGTH: u16 = 0x80;
const LOAD_STORED: u16 = 0x60;
const STORE: u16 = 0x02;
/// X = the operand.
const INDEX: u16 = 0x01;
const INDEX_STORED: u16 = 0x61;
/// X = four times the low four bits of a byte: the length of an IPv4 header.
const INDEX_HEADER_LENGTH: u16 = 0xb1;
const SUBTRACT: u16 = 0x14;
const SUBTRACT_INDEX: u16 = 0x1c;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_ABOVE: u16 = 0x25;
const IF_NOT_BELOW: u16 = 0x35;
const IF_ANY_BIT: u16 = 0x45;
const IF_ABOVE_INDEX: u16 = 0x2d;
const IF_NOT_BELOW_INDEX: u16 = 0x3d;
const RETURN: u16 = 0x06;

// Scratch words, in bytes.
/// Bytes after the IP header, as the header states them.
const PAYLOAD: u32 = 0;
/// Bytes after the IP header, as the frame holds them.
const PRESENT: u32 = 1;
/// Length of the datagram, as the UDP header states it.
const DATAGRAM: u32 = 2;

/// Offset of the kernel's own data about a frame (`SKF_AD_OFF`).
const BESIDE: u32 = 0xffff_f000;
const PACKET_TYPE: u32 = BESIDE + 4;
const TAG_PRESENT: u32 = BESIDE + 48;
const TAG_PROTOCOL: u32 = BESIDE + 60;
/// PACKET_OUTGOING of `linux/if_packet.h`: a frame that this host sends.
const OUTGOING: u32 = 4;

const ETHERTYPE_AT: u32 = 12;
const NETWORK_AT: u32 = 14;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const UDP: u32 = 17;

/// Target of a comparison.
#[derive(Clone, Copy)]
enum To {
    Next,
    Skip(u8),
    None,
}

/// Instructions; jumps to "take nothing" are filled in at the end.
struct Program(Vec<(Instruction, [To; 2])>);

impl Program {
    fn plain(&mut self, code: u16, operand: u32) -> &mut Program {
        self.0.push((Instruction { code, jump_true: 0, jump_false: 0, operand }, [To::Next; 2]));
        self
    }

    fn compare(&mut self, code: u16, operand: u32, holds: To, fails: To) -> &mut Program {
        self.0.push((Instruction { code, jump_true: 0, jump_false: 0, operand }, [holds, fails]));
        self
    }

    /// Ends the program: takes the whole frame.
    fn finish(mut self) -> Vec<Instruction> {
        let none = self.0.len() + 1;
        self.plain(RETURN, u32::MAX).plain(RETURN, 0);
        let distance = |at: usize, to: To| match to {
            To::Next => 0,
            To::Skip(count) => count,
            // It fits: programs here have some fifty instructions.
            To::None => (none - at - 1) as u8,
        };
        let placed = self.0.iter().enumerate().map(|(at, &(instruction, [holds, fails]))| Instruction {
            jump_true: distance(at, holds),
            jump_false: distance(at, fails),
            ..instruction
        });
        placed.collect()
    }
}

/// The program for `filter`. It never takes frames that this host sends.
pub(super) fn program(filter: Filter) -> Vec<Instruction> {
    let mut program = Program(Vec::new());
    program.plain(LOAD_BYTE, PACKET_TYPE).compare(IF_EQUAL, OUTGOING, To::None, To::Next);
    match filter {
        Filter::All => {}
        Filter::Ethertype(number) => {
            let number = u32::from(number);
            program
                .plain(LOAD_HALF, ETHERTYPE_AT)
                .compare(IF_EQUAL, number, To::Skip(4), To::Next)
                .plain(LOAD_BYTE, TAG_PRESENT)
                .compare(IF_EQUAL, 0, To::None, To::Next)
                .plain(LOAD_WORD, TAG_PROTOCOL)
                .compare(IF_EQUAL, number, To::Next, To::None);
        }
        Filter::Udp { first, last } => {
            program
                .plain(LOAD_BYTE, TAG_PRESENT)
                .compare(IF_EQUAL, 0, To::Next, To::None)
                .plain(LOAD_HALF, ETHERTYPE_AT)
                .compare(IF_EQUAL, IPV6, To::Skip(14), To::Next)
                .compare(IF_EQUAL, IPV4, To::Next, To::None)
                // Version 4 and a header of at least five words, in one byte.
                .plain(LOAD_BYTE, NETWORK_AT)
                .compare(IF_NOT_BELOW, 0x45, To::Next, To::None)
                .compare(IF_ABOVE, 0x4f, To::None, To::Next)
                .plain(LOAD_BYTE, NETWORK_AT + 9)
                .compare(IF_EQUAL, UDP, To::Next, To::None)
                // More fragments, or an offset.
                .plain(LOAD_HALF, NETWORK_AT + 6)
                .compare(IF_ANY_BIT, 0x3fff, To::None, To::Next)
                .plain(INDEX_HEADER_LENGTH, NETWORK_AT)
                .plain(LOAD_HALF, NETWORK_AT + 2)
                .compare(IF_NOT_BELOW_INDEX, 0, To::Next, To::None)
                .plain(SUBTRACT_INDEX, 0)
                .plain(STORE, PAYLOAD)
                .plain(JUMP, 8)
                // IPv6.
                .plain(LOAD_BYTE, NETWORK_AT)
                .compare(IF_NOT_BELOW, 0x60, To::Next, To::None)
                .compare(IF_ABOVE, 0x6f, To::None, To::Next)
                .plain(LOAD_BYTE, NETWORK_AT + 6)
                .compare(IF_EQUAL, UDP, To::Next, To::None)
                .plain(LOAD_HALF, NETWORK_AT + 4)
                .plain(STORE, PAYLOAD)
                .plain(INDEX, 40)
                // Both: the index is the header's length.
                .plain(LOAD_FRAME_LENGTH, 0)
                .plain(SUBTRACT_INDEX, 0)
                .plain(SUBTRACT, NETWORK_AT)
                .plain(STORE, PRESENT)
                .plain(LOAD_HALF_INDEXED, NETWORK_AT + 4)
                .plain(STORE, DATAGRAM)
                .plain(LOAD_HALF_INDEXED, NETWORK_AT + 2)
                .compare(IF_NOT_BELOW, u32::from(first), To::Next, To::None)
                .compare(IF_ABOVE, u32::from(last), To::None, To::Next)
                // The datagram lies in the packet, and the packet in the frame.
                .plain(INDEX_STORED, PAYLOAD)
                .plain(LOAD_STORED, PRESENT)
                .compare(IF_NOT_BELOW_INDEX, 0, To::Next, To::None)
                .plain(LOAD_STORED, DATAGRAM)
                .compare(IF_NOT_BELOW, 8, To::Next, To::None)
                .compare(IF_ABOVE_INDEX, 0, To::None, To::Next);
        }
    }
    program.finish()
}
